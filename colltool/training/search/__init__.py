"""Which layout: all that fill the ranks and fit the memory, priced as ``plan`` prices one, the best first."""
