package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// writeDeb writes the Debian package of a platform: an ar archive of the format's version,
// the control files and the files to install (deb(5)).
func (r *release) writeDeb(t target, binary string, files []file) error {
	var installed []file
	for _, folder := range []string{"usr/", "usr/bin/", "usr/share/", "usr/share/doc/", "usr/share/doc/unloop/"} { // dpkg creates no others
		installed = append(installed, file{folder, 0o755, nil})
	}
	size := 0
	for _, f := range files {
		size += len(f.body)
		switch f.name {
		case t.binary():
			f.name = "usr/bin/unloop"
		case "LICENSE":
			f.name = "usr/share/doc/unloop/copyright"
		default:
			f.name = "usr/share/doc/unloop/" + f.name
		}
		installed = append(installed, f)
	}
	needs, err := libc(binary)
	if err != nil {
		return fmt.Errorf("read which C library it needs: %w", err)
	}
	control := fmt.Appendf(nil, "Package: unloop\nVersion: %s\nArchitecture: %s\nMaintainer: The Unloop authors <noreply@unloop.invalid>\nInstalled-Size: %d\n%sSection: net\nPriority: optional\nDescription: gateway that stops looping agents\n %s\n",
		debVersion(r.version), t.arch, size/1024+1, needs, "Unloop stands in front of LLM traffic and stops agents that go round in circles.")
	archive, err := deb(control, installed, r.made)
	if err != nil {
		return err
	}
	return r.writeFile(fmt.Sprintf("unloop_%s_%s.deb", debVersion(r.version), t.arch), archive)
}

// deb returns the ar archive.
func deb(control []byte, installed []file, at time.Time) ([]byte, error) {
	var controls, data bytes.Buffer
	if err := errors.Join(writeTarGz(&controls, "", []file{{"control", 0o644, control}}, at), writeTarGz(&data, "", installed, at)); err != nil {
		return nil, err
	}
	archive := []byte("!<arch>\n")
	for _, m := range []file{{"debian-binary", 0o644, []byte("2.0\n")}, {"control.tar.gz", 0o644, controls.Bytes()}, {"data.tar.gz", 0o644, data.Bytes()}} {
		archive = fmt.Appendf(archive, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, at.Unix(), 0, 0, "100644", len(m.body))
		if archive = append(archive, m.body...); len(archive)%2 == 1 {
			archive = append(archive, '\n')
		}
	}
	return archive, nil
}

var glibc = regexp.MustCompile(`^GLIBC_2\.(\d+)`)

// libc returns the field Depends of a binary: the C library with the newest symbols that it
// takes from there; "" if it is linked statically.
func libc(binary string) (string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.ImportedSymbols()
	if err != nil { // it has no dynamic section
		return "", nil
	}
	newest := -1
	for _, s := range symbols {
		if m := glibc.FindStringSubmatch(s.Version); m != nil {
			minor, _ := strconv.Atoi(m[1]) // they are digits
			newest = max(newest, minor)
		}
	}
	if newest < 0 {
		return "", nil
	}
	return fmt.Sprintf("Depends: libc6 (>= 2.%d)\n", newest), nil
}

// debVersion returns a semantic version as Debian sorts it: 1.2.3-rc.1 is before 1.2.3.
func debVersion(version string) string {
	base, rest, found := strings.Cut(version, "-")
	return cmp.Or(map[bool]string{true: base + "~" + rest}[found], version)
}
