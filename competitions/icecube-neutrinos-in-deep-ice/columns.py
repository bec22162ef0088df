ANGLES = ["azimuth", "zenith"]
