"""Numbers of ROOT's formats, under the names that uproot has for them."""

# ruff: noqa: N816
from __future__ import annotations

from enum import IntFlag

import numpy as np

# Codecs (ROOT::RCompressionSetting::EAlgorithm).
kZLIB, kLZMA, kOldCompressionAlgo, kLZ4, kZSTD, kUndefinedCompressionAlgorithm = range(1, 7)

# How members are stored (TVirtualStreamerInfo::EReadWrite).
kBase, kChar, kShort, kInt, kLong, kFloat, kCounter, kCharStar, kDouble, kDouble32 = range(10)
kLegacyChar, kUChar, kUShort, kUInt, kULong, kBits, kLong64, kULong64, kBool, kFloat16 = range(10, 20)
kOffsetL, kOffsetP = 20, 40
kObject, kAny, kObjectp, kObjectP, kTString, kTObject, kTNamed, kAnyp, kAnyP, kAnyPnoVT, kSTLp = range(61, 72)
kSkip, kSkipL, kSkipP = 100, 120, 140
kConv, kConvL, kConvP = 200, 220, 240
kSTL, kSTLstring = 300, 365
kStreamer, kStreamLoop = 500, 501

# Containers (ROOT::ESTLType).
kNotSTL, kSTLvector, kSTLlist, kSTLdeque, kSTLmap, kSTLmultimap, kSTLset, kSTLmultiset, kSTLbitset = range(9)
kSTLforwardlist, kSTLunorderedset, kSTLunorderedmultiset, kSTLunorderedmap, kSTLunorderedmultimap = range(9, 14)
kSTLend, kSTLany = 14, 300

# Sizes, versions and references of stored objects (TBufferFile.cxx).
kByteCountMask, kByteCountVMask = np.int64(0x40000000), np.int64(0x4000)
kClassMask, kNewClassTag = np.int64(0x80000000), np.int64(0xFFFFFFFF)
kStreamedMemberWise = np.uint16(1 << 14)
kMapOffset, kNullTag = 2, 0

# Status bits of objects (TObject::EStatusBits, TObject::fBits).
kMustCleanup, kIsReferenced = np.uint32(1 << 3), np.uint32(1 << 4)
kIsOnHeap, kNotDeleted, kZombie = np.uint32(1 << 24), np.uint32(1 << 25), np.uint32(1 << 26)
kBitMask, kDisplacementMask = np.uint32(0x00FFFFFF), np.uint32(0xFF000000)

# Files and baskets (TFile::kStartBigFile, TBuffer::kMaxBufferSize, ROOT::TIOFeatures).
kStartBigFile = 2000000000
kMaxTBasketBytes = np.iinfo(np.int32).max
kGenerateOffsetMap = np.uint8(1)

# Columns of RNTuples (BinaryFormatSpecification.md): type, NumPy type in memory, bits.
_COLUMNS = (
    ("bit", "bit", 1), ("byte", "uint8", 8), ("char", "uint8", 8), ("int8", "int8", 8), ("uint8", "uint8", 8),
    ("int16", "int16", 16), ("uint16", "uint16", 16), ("int32", "int32", 32), ("uint32", "uint32", 32),
    ("int64", "int64", 64), ("uint64", "uint64", 64), ("real16", "float16", 16), ("real32", "float32", 32),
    ("real64", "float64", 64), ("index32", "int32", 32), ("index64", "int64", 64), ("switch", "switch", 96),
    ("splitint16", "int16", 16), ("splituint16", "uint16", 16), ("splitint32", "int32", 32),
    ("splituint32", "uint32", 32), ("splitint64", "int64", 64), ("splituint64", "uint64", 64),
    ("splitreal16", "float16", 16), ("splitreal32", "float32", 32), ("splitreal64", "float64", 64),
    ("splitindex32", "int32", 32), ("splitindex64", "int64", 64), ("real32trunc", "real32trunc", 32),
    ("real32quant", "real32quant", 32),
)  # fmt: skip
rntuple_version_for_writing = (1, 0, 0, 1)
rntuple_col_type_to_num_dict = {name: number for number, (name, _, _) in enumerate(_COLUMNS)}
rntuple_col_num_to_dtype_dict = {number: dtype for number, (_, dtype, _) in enumerate(_COLUMNS)}
rntuple_col_num_to_size_dict = {number: bits for number, (_, _, bits) in enumerate(_COLUMNS)}
rntuple_index_types = (0x0E, 0x0F, 0x1A, 0x1B)
rntuple_split_types = tuple(range(0x11, 0x1C))
rntuple_zigzag_types = (0x11, 0x13, 0x15)
rntuple_delta_types = (0x1A, 0x1B)
rntuple_custom_float_types = (0x1C, 0x1D)

RNTupleLocatorType = IntFlag("RNTupleLocatorType", {"STANDARD": 0, "LARGE": 1})
RNTupleEnvelopeType = IntFlag("RNTupleEnvelopeType", {"RESERVED": 0, "HEADER": 1, "FOOTER": 2, "PAGELIST": 3})
RNTupleFieldRole = IntFlag("RNTupleFieldRole", {"LEAF": 0, "COLLECTION": 1, "RECORD": 2, "VARIANT": 3, "STREAMER": 4})
RNTupleFieldFlags = IntFlag("RNTupleFieldFlags", {"NOFLAG": 0, "REPETITIVE": 1, "PROJECTED": 2, "CHECKSUM": 4})
RNTupleColumnFlags = IntFlag("RNTupleColumnFlags", {"NOFLAG": 0, "DEFERRED": 1, "RANGE": 2})
RNTupleExtraTypeIdentifier = IntFlag("RNTupleExtraTypeIdentifier", {"ROOT": 0})
RNTupleClusterFlags = IntFlag("RNTupleClusterFlags", {"NOFLAG": 0, "SHARDED": 1})
