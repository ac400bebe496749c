"""What is to be graded: cases made concrete, variants, selections, waivers."""
