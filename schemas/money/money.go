// Package money writes amounts of US dollars, so that the command line, messages, reports and
// the dashboard all write them alike.
//
// It does not know what is paid for.
package money

import (
	"math"
	"strconv"
)

// cents is how many cents a dollar has.
const cents = 100

// exact is the amount from which a float64 may not represent each cent.
const exact = 1e13

// USD returns an amount in dollars and cents, such as $1,234.50. A positive amount below a cent
// is <$0.01, and one that is not a number or too large is Unknown.
func USD(amount float64) string {
	switch {
	case math.IsNaN(amount) || math.Abs(amount) >= exact:
		return Unknown
	case amount < 0:
		return "-" + USD(-amount)
	case amount > 0 && amount < 1.0/cents:
		return "<$0.01"
	}
	all := strconv.FormatInt(int64(math.Floor(amount*cents+0.5)), 10) // not as fmt rounds: the page's script does the same
	for len(all) < len("000") {
		all = "0" + all
	}
	dollars := all[:len(all)-2]
	for i := len(dollars) - 3; i > 0; i -= 3 {
		dollars = dollars[:i] + "," + dollars[i:]
	}
	return "$" + dollars + "." + all[len(all)-2:]
}

// Unknown stands for an amount that is not known.
const Unknown = "–"
