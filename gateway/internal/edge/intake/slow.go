package intake

import "time"

const (
	// A client is slow if its body takes slowAfter longer than at leastPace bytes a second.
	leastPace, slowAfter = 32 << 10, 5 * time.Second
	// lookEvery is how often waiting requests look for slow clients and free memory, all of
	// them together.
	lookEvery = time.Second
)

// short reports whether less than a quarter of the memory is free; the lock is held.
func (b *Bodies) short() bool { return b.size-b.taken < b.size/4 }

// look cuts off slow clients while memory is short, and gives away free memory, at most once
// per lookEvery.
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

// cutSlow cuts off the clients that are slow; the lock is held.
func (b *Bodies) cutSlow(now time.Time) {
	for u, slow := range b.coming {
		if now.After(slow) {
			delete(b.coming, u)
			_ = u.conn.SetReadDeadline(now)
		}
	}
}

// receive reads the next part of a body that is held in memory. Only the client's own time
// counts for its pace, not waiting for memory.
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
