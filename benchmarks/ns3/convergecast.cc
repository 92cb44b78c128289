// One run of ns-3's lr-wpan: every node but 0 sends to node 0, saturated or as a Poisson process.
//
//   convergecast SEED SECONDS PAYLOAD ACKS RATE NETWORKS CHANNELS < layout
//
// Of two NETWORKS each has half of the nodes, the first of which is its sink, and a PAN of its own, on the next of two
// CHANNELS.
// PAYLOAD in bytes, at least 6; ACKS 0 or 1; RATE in frames per second and node, 0: the next frame as soon as the last
// is confirmed. The layout: the number of nodes, their positions (x y, in m; they set propagation delays only), then the
// matrix of path losses in dB, a row for each sender. Prints one line of JSON: counts, and the seconds from request to
// first reception, added up. All else is ns-3's own: 0 dBm, channel 11, short addresses in one PAN (a PSDU of
// PAYLOAD + 11 bytes), unslotted CSMA-CA.

#include "ns3/core-module.h"
#include "ns3/lr-wpan-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/spectrum-module.h"

#include <cstring>
#include <iostream>
#include <set>
#include <utility>
#include <vector>

using namespace ns3;

namespace
{

// What a payload begins with.
struct __attribute__((packed)) Message
{
    uint16_t sender;
    uint32_t number;
};

// Of requests in the time that is measured.
struct Counts
{
    uint64_t requests{0};
    uint64_t received{0};
    uint64_t first{0};
    uint64_t duplicates{0};
    uint64_t acknowledged{0};
    uint64_t accessFailed{0};
    uint64_t noAck{0};
    double delay{0};
};

Counts counts;
double seconds;
uint32_t payload;
bool acks;
double rate;
uint32_t each;
std::vector<Ptr<LrWpanNetDevice>> devices;
std::vector<std::vector<double>> requested;
std::vector<std::vector<bool>> arrived;
Ptr<ExponentialRandomVariable> gap;

Mac16Address
AddressOf(uint32_t node)
{
    uint8_t bytes[2] = {static_cast<uint8_t>((node + 1) >> 8), static_cast<uint8_t>((node + 1) & 0xff)};
    Mac16Address address;
    address.CopyFrom(bytes);
    return address;
}

uint32_t
SinkOf(uint32_t node)
{
    return node / each * each;
}

void
Request(uint32_t node)
{
    double now = Simulator::Now().GetSeconds();
    if (now >= seconds)
    {
        return;
    }
    std::vector<uint8_t> bytes(payload, 0);
    Message message{static_cast<uint16_t>(node), static_cast<uint32_t>(requested[node].size())};
    std::memcpy(bytes.data(), &message, sizeof message);
    requested[node].push_back(now);
    arrived[node].push_back(false);
    ++counts.requests;
    McpsDataRequestParams params;
    params.m_srcAddrMode = SHORT_ADDR;
    params.m_dstAddrMode = SHORT_ADDR;
    params.m_dstPanId = 1 + node / each;
    params.m_dstAddr = AddressOf(SinkOf(node));
    params.m_msduHandle = 0;
    params.m_txOptions = acks ? TX_OPTION_ACK : TX_OPTION_NONE;
    devices[node]->GetMac()->McpsDataRequest(params, Create<Packet>(bytes.data(), payload));
    if (rate > 0)
    {
        Simulator::Schedule(Seconds(gap->GetValue()), &Request, node);
    }
}

void
Confirmed(uint32_t node, McpsDataConfirmParams params)
{
    counts.acknowledged += params.m_status == IEEE_802_15_4_SUCCESS;
    counts.accessFailed += params.m_status == IEEE_802_15_4_CHANNEL_ACCESS_FAILURE;
    counts.noAck += params.m_status == IEEE_802_15_4_NO_ACK;
    if (rate == 0)
    {
        // The MAC takes the frame from its queue only after this call.
        Simulator::ScheduleNow(&Request, node);
    }
}

void
Indicated(McpsDataIndicationParams, Ptr<Packet> packet)
{
    Message message;
    packet->CopyData(reinterpret_cast<uint8_t*>(&message), sizeof message);
    if (arrived[message.sender][message.number])
    {
        ++counts.duplicates;
        return;
    }
    arrived[message.sender][message.number] = true;
    ++counts.received;
    counts.first += message.sender < each;
    counts.delay += Simulator::Now().GetSeconds() - requested[message.sender][message.number];
}

} // namespace

int
main(int argc, char* argv[])
{
    if (argc != 8)
    {
        std::cerr << "usage: convergecast SEED SECONDS PAYLOAD ACKS RATE NETWORKS CHANNELS < layout\n";
        return 2;
    }
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(std::stoul(argv[1]));
    seconds = std::stod(argv[2]);
    payload = std::stoul(argv[3]);
    acks = std::stoi(argv[4]) != 0;
    rate = std::stod(argv[5]);

    uint32_t networks = std::stoul(argv[6]);
    uint32_t channels = std::stoul(argv[7]);

    uint32_t size;
    std::cin >> size;
    each = size / networks;
    requested.resize(size);
    arrived.resize(size);

    auto channel = CreateObject<MultiModelSpectrumChannel>();
    auto losses = CreateObject<MatrixPropagationLossModel>();
    channel->AddPropagationLossModel(losses);
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());

    NodeContainer nodes;
    nodes.Create(size);
    std::vector<Ptr<MobilityModel>> places;
    for (uint32_t i = 0; i < size; ++i)
    {
        double x;
        double y;
        std::cin >> x >> y;
        auto place = CreateObject<ConstantPositionMobilityModel>();
        place->SetPosition(Vector(x, y, 0));
        places.push_back(place);
        auto device = CreateObject<LrWpanNetDevice>();
        device->SetChannel(channel);
        nodes.Get(i)->AddDevice(device);
        device->GetPhy()->SetMobility(place);
        device->GetMac()->SetPanId(1 + i / each);
        if (uint8_t channel = 11 + i / each % channels; channel != 11)
        {
            LrWpanPhyPibAttributes attributes;
            attributes.phyCurrentChannel = channel;
            device->GetPhy()->PlmeSetAttributeRequest(phyCurrentChannel, &attributes);
        }
        device->GetMac()->SetShortAddress(AddressOf(i));
        device->GetMac()->SetMcpsDataConfirmCallback(MakeBoundCallback(&Confirmed, i));
        devices.push_back(device);
    }
    for (uint32_t i = 0; i < size; ++i)
    {
        for (uint32_t j = 0; j < size; ++j)
        {
            double loss;
            std::cin >> loss;
            if (i != j)
            {
                losses->SetLoss(places[i], places[j], loss, false);
            }
        }
    }
    if (!std::cin)
    {
        std::cerr << "the layout ends too early\n";
        return 2;
    }
    for (uint32_t i = 0; i < size; i += each)
    {
        devices[i]->GetMac()->SetMcpsDataIndicationCallback(MakeCallback(&Indicated));
    }

    gap = CreateObject<ExponentialRandomVariable>();
    gap->SetAttribute("Mean", DoubleValue(rate > 0 ? 1 / rate : 1));
    auto start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < size; ++i)
    {
        if (i == SinkOf(i))
        {
            continue;
        }
        double first = rate > 0 ? gap->GetValue() : start->GetValue(0, 0.01);
        Simulator::Schedule(Seconds(first), &Request, i);
    }
    // What is under way may still arrive, except where there is always more.
    Simulator::Stop(Seconds(rate > 0 ? seconds + 5 : seconds));
    Simulator::Run();
    std::cout.precision(12);
    std::cout << "{\"requests\": " << counts.requests << ", \"received\": " << counts.received
              << ", \"first\": " << counts.first << ", \"duplicates\": " << counts.duplicates << ", \"acknowledged\": " << counts.acknowledged
              << ", \"access_failed\": " << counts.accessFailed << ", \"no_ack\": " << counts.noAck
              << ", \"delay_s\": " << counts.delay << "}\n";
    Simulator::Destroy();
    return 0;
}
