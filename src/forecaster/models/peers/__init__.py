"""Networks of others, written from their papers: STID and Graph WaveNet."""
