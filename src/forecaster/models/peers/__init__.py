"""Networks of others, written from their papers: STID, Graph WaveNet and STAEformer."""
