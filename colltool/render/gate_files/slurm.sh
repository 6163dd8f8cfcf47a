# the folder of nccl-tests' programs, built with MPI=1
NCCL_TESTS=${NCCL_TESTS:-/opt/nccl-tests/build}
@runs@
