"""What generated layers are for: energies, language models made of them, and the same for Hugging Face transformers."""

import os

# Threads that wait for each other give way instead of spinning. Spinning costs little on idle cores, but as soon as
# something else runs on one of them, each parallel loop waits a whole time slice, and training is ten times slower.
# The library that reads this does so when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
