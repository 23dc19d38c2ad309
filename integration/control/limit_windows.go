package control

// clientPlaces is how many clients may be attached.
func clientPlaces() int { return MaxClients }
