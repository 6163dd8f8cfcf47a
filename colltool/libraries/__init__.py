"""Libraries: what NCCL, RCCL or MPI add to the wires, measured; a data file a library and
version."""
