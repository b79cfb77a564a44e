"""Stand-ins for what cannot be real in a rehearsal: k3s, HAMi, the GPU and its driver."""
