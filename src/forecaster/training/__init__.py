"""Training that can be killed, resumed and trusted: the loss, the loop and its checkpoints."""
