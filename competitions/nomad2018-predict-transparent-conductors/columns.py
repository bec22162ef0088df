TARGETS = ["formation_energy_ev_natom", "bandgap_energy_ev"]
