package intake

import "time"

const (
	// leastPace is how many bytes a second a client sends at least that is not slow, and
	// slowAfter how much longer it may take for its body.
	leastPace, slowAfter = 32 << 10, 5 * time.Second
	// lookEvery is how often those that wait for memory look for slow clients and for memory
	// that was given to nobody, however many they are.
	lookEvery = time.Second
)

// short reports whether more memory is taken than one caller may take; the lock is held.
func (b *Bodies) short() bool { return b.size-b.taken < b.size/4 }

// look ends the bodies of slow clients while memory is short, and gives away what is free,
// unless it was called less than a second ago.
func (b *Bodies) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.looked) < lookEvery {
		return
	}
	b.looked = now
	if b.short() {
		b.cutSlow(now)
	}
	b.share(b.waiting.Len())
}

// cutSlow ends the bodies that are slow at a time; the lock is held.
func (b *Bodies) cutSlow(now time.Time) {
	for u, slow := range b.coming {
		if now.After(slow) {
			delete(b.coming, u)
			_ = u.conn.SetReadDeadline(now)
		}
	}
}

// receive reads the next part of a body that is kept in memory. Only the time that the client
// takes counts against it, not the wait for memory.
func (u *Upload) receive(p []byte) (int, error) {
	b, began := u.memory.of, time.Now()
	b.mu.Lock()
	b.coming[u] = began.Add(slowAfter + time.Duration(u.memory.used)*time.Second/leastPace - u.waited)
	b.mu.Unlock()
	n, err := u.ReadCloser.Read(p)
	b.mu.Lock()
	delete(b.coming, u)
	b.mu.Unlock()
	u.waited += time.Since(began)
	return n, err
}
