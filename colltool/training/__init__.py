"""A training job above its collectives: what it computes, what it sends, what it keeps in memory."""
