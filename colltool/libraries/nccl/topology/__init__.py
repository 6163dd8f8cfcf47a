"""NCCL's channels from a node's topology file: its paths and graphs, as NCCL computes them
(:func:`colltool.libraries.nccl.topology.graphs.graphs_of`)."""
