"""Questions over several answers: what moved between two of them."""
