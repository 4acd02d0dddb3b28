"""The Open Inference Protocol: its endpoints, and tensors."""
