"""The papers that formulas come from."""

BRUCK = (
    'Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing '
    'systems", IEEE TPDS 8(11), 1997, 1143-1156, doi:10.1109/71.642949'
)
CHAN = (
    'Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience", CCPE 19(13), 2007, '
    "1749-1783, doi:10.1002/cpe.1206"
)
HAN = 'Luo et al., "HAN: a hierarchical autotuned collective communication framework", CLUSTER 2020, 23-34'
HOCKNEY = (
    'Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3), 1994, 389-398, '
    "doi:10.1016/S0167-8191(06)80021-9"
)
JAIN_SABHARWAL = 'Jain, Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS 2010, 27-36'
MAGPIE = (
    "Kielmann, Hofman, Bal, Plaat, Bhoedjang, \"MagPIe: MPI's collective communication operations for clustered wide area "
    'systems", PPoPP 1999, 131-140, doi:10.1145/301104.301116'
)
MSCCLPP = (
    'Shah et al., "MSCCL++: Rethinking GPU communication abstractions for cutting-edge AI applications", 2025, arXiv:2504.09014'
)
NCCL_RINGS = (
    'Hu et al., "Demystifying NCCL: An in-depth analysis of GPU communication protocols and algorithms", 2025, arXiv:2507.04786'
)
NCCL_TREES = (
    'Jeaugey, "Massively scale your deep learning training with NCCL 2.4", NVIDIA, 2019, '
    "developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4"
)
PAT = 'Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025, arXiv:2506.20252'
PARAMETER_SERVER = (
    'Li, Andersen, Park, Smola, Ahmed, Josifovski, Long, Shekita, Su, "Scaling distributed machine learning with the parameter '
    'server", OSDI 2014, 583-598'
)
PATARASUK_YUAN = (
    'Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009, 117-124, '
    "doi:10.1016/j.jpdc.2008.09.002"
)
RABENSEIFNER = (
    'Rabenseifner, "Optimization of collective reduction operations", ICCS 2004, LNCS 3036, 1-9, doi:10.1007/978-3-540-24685-5_1'
)
SHARP = (
    'Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP): a hardware architecture for efficient data reduction", '
    "COMHPC 2016, 1-10, doi:10.1109/COMHPC.2016.006"
)
THAKUR_GROPP = (
    'Thakur, Gropp, "Improving the performance of collective operations in MPICH", EuroPVM/MPI 2003, LNCS 2840, 257-267, '
    "doi:10.1007/978-3-540-39924-7_38"
)
THAKUR_RABENSEIFNER_GROPP = (
    'Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005, 49-66, '
    "doi:10.1177/1094342005051521"
)
TUTEL = 'Hwang et al., "Tutel: Adaptive mixture-of-experts at scale", MLSys 2023, arXiv:2206.03382'
TWO_TREES = (
    'Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35(12), '
    "2009, 581-594, doi:10.1016/j.parco.2009.09.001"
)
