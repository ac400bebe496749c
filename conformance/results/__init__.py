"""What a run says, as data; written and read in one place."""
