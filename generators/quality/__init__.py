"""Quality of synthetic images: fidelity, diversity and class agreement, each with a 95 % interval."""
