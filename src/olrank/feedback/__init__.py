"""What a closed impression teaches: who was examined, which pairs are learned from."""
