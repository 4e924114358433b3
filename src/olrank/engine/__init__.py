"""Many online simulations in lockstep: arrays in, arrays out."""
