package natskit

// Learn takes the scheme of the partitions as it was at a time.
var Learn = (*Conn).learn

// Suspect reports whether a server is to be looked at.
func (e *Embedded) Suspect() bool { return len(e.suspect) > 0 }
