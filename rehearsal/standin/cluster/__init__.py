"""The k3s and HAMi stand-in. Packed into one executable zip by `rehearsal.standin.build`."""
