"""Small original files in the published format of each data set, and the expected tables, written by hand."""

import datetime
import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

import numpy as np
import openpyxl
from scipy.io import savemat

_AIR = ("CO(GT)", "PT08.S1(CO)", "NMHC(GT)", "C6H6(GT)", "PT08.S2(NMHC)", "NOx(GT)", "PT08.S3(NOx)", "NO2(GT)")
_AIR += ("PT08.S4(NO2)", "PT08.S5(O3)", "T", "RH", "AH")
AIR_CSV = (
    f"Date;Time;{';'.join(_AIR)};;\r\n"
    "10/03/2004;18.00.00;2,6;1360;150;11,9;1046;166;1056;113;1692;1268;13,6;48,9;0,7578;;\r\n"
    "10/03/2004;06.00.00;-200;1292;112;9,4;955;103;1174;92;1559;972;13,3;47,7;0,7255;;\r\n" + 3 * (";" * 16 + "\r\n")
)
"""The format of UCI's text: semicolons, decimal commas, two empty columns and three empty rows at the end."""


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    """Return a .tar.gz archive whose files are in a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def air_xlsx() -> bytes:
    """Return a workbook like UCI's, with dates, times, and more digits than the text file."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Date", "Time", *_AIR])
    day = datetime.datetime(2004, 3, 10)
    first = [2.6, 1360, 150, 11.881723492, 1045.5, 166, 1056.25, 113, 1692, 1267.5, 13.599999904633, 48.875001, 0.75775]
    second = [-200, 1292.25, 112, 9.397, 954.75, 103, 1173.75, 92, 1558.75, 972.25, 13.3, 47.7, 0.7254874492]
    sheet.append([day, datetime.time(18), *first])
    sheet.append([day, datetime.time(6), *second])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


AIR = (
    "datetime,hour_frac,CO(GT),PT08.S1(CO),NMHC(GT),C6H6(GT),PT08.S2(NMHC),NOx(GT),PT08.S3(NOx),NO2(GT),"
    "PT08.S4(NO2),T,RH,AH,PT08.S5(O3)\n"
    "2004-03-10 18:00:00,0.75,2.6,1360.0,150.0,11.88172349,1045.5,166.0,1056.25,113.0,1692.0,13.5999999,48.875001,"
    "0.75775,1267.5\n"
    "2004-03-10 06:00:00,0.25,-200.0,1292.25,112.0,9.397,954.75,103.0,1173.75,92.0,1558.75,13.3,47.7,0.7254874492,"
    "972.25\n"
)


def air_zip() -> bytes:
    """Return an archive with the files of air+quality.zip as served by UCI."""
    return zipped({"AirQualityUCI.csv": AIR_CSV, "AirQualityUCI.xlsx": air_xlsx()})


def mat(**arrays: np.ndarray) -> bytes:
    """Return a MATLAB file with the given arrays."""
    buffer = io.BytesIO()
    savemat(buffer, arrays)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    """Return a .npy file of one array."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def idx(array: np.ndarray) -> bytes:
    """Return a compressed file of bytes in LeCun's idx format."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


_ADULT = "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K"
_ADULT_OUT = "39,State-gov,77516,Bachelors,13,Never-married,?,Not-in-family,White,Male,2174,0,40,Cuba,<=50K"
_ARFF = (
    '@relation a\n\n@attribute "UNIQUE_ID" numeric\n@attribute "user" {"33" , "17"}\n@attribute "XPEAK" numeric\n'
    '@attribute class{ "Walking" , "Jogging" }\n\n@data\n1,33,2075,Jogging\n2,17,?,Walking\n'
)
_LETTERS = ",".join(map(str, range(1, 17)))
_SENSED = " ".join(f"{n / 8}" for n in range(48))
_PARTS = ("1", "2", "3")

TABLES: dict[str, tuple[dict[str, bytes], str]] = {
    "airquality": ({"air+quality.zip": air_zip()}, AIR),
    "energy": (
        {
            "energy.zip": zipped(
                {"energydata_complete.csv": '"date","Appliances","T1"\n"2016-01-11 17:00:00","  60","47.59666666667"\n'}
            )
        },
        "date,T1,Appliances\n2016-01-11 17:00:00,47.59666667,60.0\n",
    ),
    "banana": (
        {"banana.zip": zipped({"banana.all.txt": "-1 1:1.617466 2:-0.9190 \n", "__MACOSX/._banana.all.txt": "\x00"})},
        "x1,x2,label\n1.617466,-0.919,-1\n",
    ),
    "credit_default": (
        {"c.zip": zipped({"UCI_Credit_Card.csv": '"ID","AGE","BILL","default.payment.next.month"\n1,24,2000.0,1\n'})},
        "AGE,BILL,default.payment.next.month\n24,2000.0,1\n",
    ),
    "letter": (
        {"letter+recognition.zip": zipped({"letter-recognition.data": f"T,{_LETTERS}\nI,{_LETTERS}\n", "Index": ""})},
        "x-box,y-box,width,high,onpix,x-bar,y-bar,x2bar,y2bar,xybar,x2ybr,xy2br,x-ege,xegvy,y-ege,yegvx,letter\n"
        f"{_LETTERS},T\n{_LETTERS},I\n",
    ),
    "adult": (
        {"adult.zip": zipped({"adult.data": f"{_ADULT}\n\n", "adult.test": f"|1x3 Cross validator\n{_ADULT}.\n\n"})},
        "split,age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
        "capital-gain,capital-loss,hours-per-week,native-country,income\n"
        f"train,{_ADULT_OUT}\ntest,{_ADULT_OUT}\n",
    ),
    "conductivity": (
        {"s.zip": zipped({"train.csv": "number,critical_temp\n4,29.0\n5,.50\n", "unique_m.csv": "H\n0\n"})},
        "number,critical_temp\n4,29.0\n5,.50\n",
    ),
    "har": (
        {
            "har.zip": zipped(
                {
                    "UCI HAR Dataset.zip": zipped(
                        {
                            "UCI HAR Dataset/train/X_train.txt": "  2.5e-001 -1.0e+000\n",
                            "UCI HAR Dataset/train/y_train.txt": "5\n",
                            "UCI HAR Dataset/test/X_test.txt": "  1.0e+000  0.0e+000\n",
                            "UCI HAR Dataset/test/y_test.txt": "2\n",
                        }
                    )
                }
            )
        },
        "f0,f1,class\n0.25,-1.0,5\n1.0,0.0,2\n",
    ),
    "sensorless": (
        {"drive.zip": zipped({"Sensorless_drive_diagnosis.txt": f"{_SENSED} 1\n{_SENSED} 11\n"})},
        ",".join([*(f"f{n}" for n in range(48)), "class"])
        + "\n"
        + "".join(",".join([*_SENSED.split(), end]) + "\n" for end in ("0", "10")),
    ),
    "sensorless_subset": (
        {"X.npy": npy(np.array([[1.5, -2e-05], [0.25, 3.0]])), "Y.npy": npy(np.array([0.0, 10.0]))},
        "f0,f1,class\n1.5,-2e-05,0\n0.25,3.0,10\n",
    ),
    "tomshardware": (
        {"TomsHardware.mat": mat(X=np.array([[0.0, 2.0], [1.0, 4.5]]), Y=np.array([[7.5], [0.0]]))},
        "f0,f1,target\n0.0,2.0,7.5\n1.0,4.5,0.0\n",
    ),
    "twitter": (
        {"TwitterData.mat": mat(X=np.array([[1 / 3, 0.0], [2e-8 / 3, 1.0]]), y=np.array([[0.5], [0.0]]))},
        "f0,f1,target\n0.3333333333,6.666666667e-09,0.5\n0,1,0\n",
    ),
    "wisdm_har": (
        {"WISDM_ar_latest.tar.gz": tarred({"WISDM_ar_v1.1_transformed.arff": _ARFF.encode()})},
        "UNIQUE_ID,user,XPEAK,class\n1,33,2075.0,Jogging\n2,17,,Walking\n",
    ),
    "intel_connectivity": (
        {"connectivity.txt": b" 2 1 0.25000000000000000000\n 0 31\n 1 0 0.75381767700138825\n 1 2 0.00000000\n"},
        "sender,receiver,prob\n1,0,0.753817677001\n1,2,0.0\n2,1,0.25\n",
    ),
    "intel_mote_locs": ({"mote_locs.txt": b"1 21.5 23\n23 6 24\n"}, "mote,x_m,y_m\n1,21.5,23\n23,6.0,24\n"),
    "iotlab_grenoble_k7": (
        {"grenoble.k7.gz": gzip.compress(b'{"tx_length": 100}\ndatetime,src,pdr,rssi\n2018-01-11T16:32:22.0,0,1.0,\n')},
        "datetime,src,pdr,rssi\n2018-01-11T16:32:22.0,0,1.0,\n",
    ),
    "ulb_library1_links": (
        {
            "library1data.tgz": tarred(
                {f"N{part}.txt": b"1163438002000 3 1\xa0000 16 13 200 234\r\n\r\n" for part in _PARTS}
            )
        },
        "part,timestamp_ms,packet_in_seq,seq,node,src,lqi,rssi,lqi_corrected,rssi_dbm\n"
        + "".join(f"{part},1163438002000,3,1000,16,13,200,234,183,-67\n" for part in _PARTS),
    ),
    "ulb_library1_readings": (
        {
            "library1data.tgz": tarred(
                {f"R{part}.txt": b"1163438041250 20 1 21,21 3 51,5 22,08 20 28\n" for part in _PARTS}
            )
        },
        "part,timestamp_ms,node,seq,temp_int,volt,humidity,temperature,par,tsr\n"
        + "".join(f"{part},1163438041250,20,1,21.21,3.0,51.5,22.08,20.0,28.0\n" for part in _PARTS),
    ),
}
"""For each data set that is a table: its original files by name, and the text of the prepared table."""

_IMAGES = np.arange(5 * 784).reshape(5, 28, 28) % 256
ARRAYS: dict[str, tuple[dict[str, bytes], dict[str, np.ndarray]]] = {
    "mnist": (
        {
            "train-images-idx3-ubyte.gz": idx(_IMAGES[:3]),
            "train-labels-idx1-ubyte.gz": idx(np.array([5, 0, 4])),
            "t10k-images-idx3-ubyte.gz": idx(_IMAGES[3:]),
            "t10k-labels-idx1-ubyte.gz": idx(np.array([7, 2])),
        },
        {"x": _IMAGES.reshape(5, 784).astype(np.uint8), "y": np.array([5, 0, 4, 7, 2], np.uint8)},
    ),
    "mahimahi_cellular": (
        {"A.up": b"3\n3\n10\n", "A.down": b"0\n7\n"},
        {"A.up": np.array([3, 0, 7], np.int32), "A.down": np.array([0, 7], np.int32)},
    ),
}
"""For each data set of arrays: its original files by name, and the prepared arrays."""
