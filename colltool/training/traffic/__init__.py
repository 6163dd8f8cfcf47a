"""What a training step sends: for each dimension its collectives, as records that somebody else prices."""
