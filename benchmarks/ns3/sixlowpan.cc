// What ns-3's sixlowpan sends of IPv6 packets.
//
//   sixlowpan PREFIX < packets
//
// PREFIX, a /64, is context 0. Each packet is a line: the frame's source and target, short addresses as 00:01, and the
// packet in hexadecimal. Prints a line for each: what the frames carry, in hexadecimal. UDP's checksum is not left out.

#include "ns3/core-module.h"
#include "ns3/lr-wpan-module.h"
#include "ns3/network-module.h"
#include "ns3/sixlowpan-module.h"
#include "ns3/spectrum-module.h"

#include <cstdio>
#include <iostream>
#include <vector>

using namespace ns3;

namespace
{

void
Print(Ptr<const Packet> packet, Ptr<SixLowPanNetDevice>, uint32_t)
{
    std::vector<uint8_t> bytes(packet->GetSize());
    packet->CopyData(bytes.data(), bytes.size());
    for (uint8_t byte : bytes)
    {
        std::printf("%02x", byte);
    }
    std::printf(" ");
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string source;
    std::string target;
    std::string digits;
    while (std::cin >> source >> target >> digits)
    {
        std::vector<uint8_t> bytes;
        for (size_t i = 0; i < digits.size(); i += 2)
        {
            bytes.push_back(std::stoul(digits.substr(i, 2), nullptr, 16));
        }
        auto node = CreateObject<Node>();
        auto below = CreateObject<LrWpanNetDevice>();
        below->SetChannel(CreateObject<SingleModelSpectrumChannel>());
        below->GetMac()->SetShortAddress(Mac16Address(source.c_str()));
        node->AddDevice(below);
        auto device = CreateObject<SixLowPanNetDevice>();
        node->AddDevice(device);
        device->SetNetDevice(below);
        device->SetAttribute("OmitUdpChecksum", BooleanValue(false));
        device->AddContext(0, Ipv6Prefix(argv[1], 64), true, Hours(1));
        device->TraceConnectWithoutContext("Tx", MakeCallback(&Print));
        device->Send(Create<Packet>(bytes.data(), bytes.size()), Mac16Address(target.c_str()), 0x86dd);
        std::printf("\n");
    }
    Simulator::Destroy();
    return argc != 2;
}
