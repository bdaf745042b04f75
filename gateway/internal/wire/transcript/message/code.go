package message

import "github.com/unloop/unloop/gateway/internal/text/offsets"

// Code codes a part. It fails for a call that only the provider has.
func (p *Part) Code(c *offsets.Coder) {
	if p.Known != nil {
		c.Fail()
	}
	offsets.Byte(c, &p.Kind)
	c.Flags(&p.Inside, &p.Failed, &p.Fine, &p.Pending, &p.Provided)
	for _, b := range [...]*[]byte{&p.ID, &p.Name, &p.Mark, &p.Value} {
		c.Bytes(b)
	}
}

// CodeParts codes parts.
func CodeParts(c *offsets.Coder, parts *[]Part) {
	offsets.List(c, parts, func(p *Part) { p.Code(c) })
}
