"""One file a command: its public function, its options and what it prints; and what they share."""
