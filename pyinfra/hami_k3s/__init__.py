"""pyinfra stages, operations and facts for k3s nodes whose NVIDIA cards HAMi shares."""
