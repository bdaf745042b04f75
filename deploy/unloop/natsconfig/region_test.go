package natsconfig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/operator"
)

// line passes connections on to an address until it is cut.
type line struct {
	to string
	mu sync.Mutex
	// cut refuses connections; ends closes those that are there.
	cut  bool
	ends []func()
}

// startLine returns a line to a port of this machine, and its own.
func startLine(t *testing.T, port int) (l *line, own int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &line{to: fmt.Sprintf("127.0.0.1:%d", port)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var passing sync.WaitGroup
		defer passing.Wait()
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { l.pass(near) })
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); l.set(true); <-done })
	return l, listener.Addr().(*net.TCPAddr).Port
}

func (l *line) pass(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.ends = append(l.ends, func() { _, _ = near.Close(), far.Close() })
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
	both.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
	both.Wait()
}

// set cuts the line, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, end := range l.ends {
		end()
	}
	l.ends = nil
}

// linked installs an origin and a region that joins it over lines.
func linked(t *testing.T, nodes int) (hub, eu *installation, links []*line) {
	t.Helper()
	hub = install(t, nodes, func(c *natsconfig.Config) { c.Domain, c.Regions, c.Replicas = "hub", []string{"eu"}, nodes })
	hub.prepare(nodes)
	invited, err := natsconfig.ReadInvitation(filepath.Join(hub.dir, natsconfig.InvitationFile("eu")))
	if err != nil {
		t.Fatal(err)
	}
	invited.URLs = nil
	for _, n := range hub.Nodes {
		l, port := startLine(t, n.LeafPort)
		links, invited.URLs = append(links, l), append(invited.URLs, fmt.Sprintf("tls://127.0.0.1:%d", port))
	}
	eu = install(t, nodes, func(c *natsconfig.Config) { c.Domain, c.Origin, c.Replicas = "eu", invited, nodes })
	eu.origin = hub
	eu.await("the link", func() bool {
		return slices.ContainsFunc(eu.servers, func(s *server.Server) bool { return s.NumLeafNodes() > 0 })
	})
	eu.prepare(nodes)
	return hub, eu, links
}

// ids returns the ids of the events in a stream, in order.
func (in *installation) ids() (ids []string) {
	in.t.Helper()
	for msg, err := range (natskit.DirectGet{From: 1}).Ask(in.t.Context(), in.jetstream(natsperm.Operator), schemas.StreamEvents) {
		if err != nil {
			in.t.Fatal(err)
		}
		var e event.Event
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			in.t.Fatal(err)
		}
		if e.Data.Region != "eu" {
			in.t.Errorf("a loop of region eu says that it was found in %q", e.Data.Region)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// copies returns what a stream copies from the other region.
func (in *installation) copies(stream string) natskit.Copy {
	in.t.Helper()
	s, err := in.jetstream(natsperm.Monitor).Stream(in.t.Context(), stream)
	if err != nil {
		in.t.Fatal(err)
	}
	all := natskit.Copies(s.CachedInfo())
	if len(all) != 1 {
		in.t.Fatalf("%s copies %+v", stream, all)
	}
	return all[0]
}

// A region has the origin's policies and overrides, counts its own callers, and hands its events
// over. Cut off, it goes on with what it has; then both catch up, and each event is there once.
func TestARegionGoesOnWhenItIsCutOff(t *testing.T) {
	t.Parallel()
	hub, eu, links := linked(t, 1)
	// Checks of the region stay in it.
	strayed := make(chan string, 100)
	stray := hub.connect(natsperm.Detector, (&lines{}).log())
	for _, subject := range []string{schemas.SubjectCheck, schemas.SubjectBeat} {
		if _, err := stray.Subscribe(subject, func(m *nats.Msg) { strayed <- m.Subject }); err != nil {
			t.Fatal(err)
		}
	}
	u := eu.start()
	u.loop("before")
	if err := u.put(t.Context(), schemas.BucketOverrides, "block.tenant.acme", evilBlock); err != nil {
		t.Fatal(err)
	}
	u.await("the origin's block holds", func() bool { return u.tenant() == http.StatusForbidden })
	u.await("the events are at the origin", func() bool { return len(hub.ids()) > 0 && slices.Equal(hub.ids(), eu.ids()) })

	for _, l := range links {
		l.set(true)
	}
	for _, end := range []struct {
		in     *installation
		stream string
	}{{eu, natskit.BucketStream(schemas.BucketPolicies)}, {hub, schemas.StreamEvents}} {
		eu.await(end.stream+" is seen to be cut off", func() bool { return end.in.copies(end.stream).Cut(time.Now()) })
	}
	if err := u.push(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	g := u.startGateway()
	u.loop("meanwhile")
	if status := u.tenant(); status != http.StatusForbidden {
		t.Errorf("a gateway that started meanwhile does not know the block: status %d", status)
	}
	known := len(hub.ids())
	u.await("events wait in the region", func() bool { return len(eu.ids()) > known })
	if len(hub.ids()) != known {
		t.Error("events cross a line that is cut")
	}

	for _, l := range links {
		l.set(false)
	}
	u.inForce(g, "1")
	u.await("the events are at the origin, once", func() bool { return slices.Equal(hub.ids(), eu.ids()) })
	u.await("the region is linked", func() bool { return !eu.copies(natskit.BucketStream(schemas.BucketPolicies)).Cut(time.Now()) })
	if refused := u.refused(); len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
	if len(strayed) > 0 {
		t.Errorf("detectors of the origin received %d messages of the region, such as of %s", len(strayed), <-strayed)
	}
}

// Both ends are clusters of three servers. The region receives policies although the server
// that forwarded them is lost.
func TestARegionGoesOnWhenItLosesAServer(t *testing.T) {
	t.Parallel()
	hub, eu, _ := linked(t, 3)
	bucket := natskit.BucketStream(schemas.BucketPolicies)
	reader := eu.jetstream(natsperm.Operator)
	lose(t, eu, bucket)
	if _, err := operator.Store(t.Context(), hub.jetstream(natsperm.Operator), hub.signer(), schemas.BucketPolicies, schemas.KeyBundle, []byte(bundle), 0); err != nil {
		t.Fatal(err)
	}
	eu.await("the policy is in the region", func() bool {
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		entries, err := natskit.StoredEntries(short, reader, schemas.BucketPolicies, schemas.KeyBundle)
		return err == nil && len(entries) > 0
	})
}
