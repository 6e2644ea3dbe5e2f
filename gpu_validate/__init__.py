"""What this machine has: toolkit (`toolchain.py`), driver (`nvml.py`), and what each missing part costs (`capabilities.py`)."""
