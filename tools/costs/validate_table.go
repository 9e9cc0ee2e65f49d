package costs

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteRows prints rows as a table: values, how far the prediction moves if one price goes to an end of its
// range, and the status.
func WriteRows(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "row\tmeasured\tpredicted\trange\toff\ttolerance\trole\tstatus")
	for _, r := range rows {
		form, sign := "%.0f ns", ""
		if r.Unit == "%" {
			form, sign = "%+.0f %%", "+"
			if r.positive() {
				form, sign = "%.0f %%", ""
			}
		}
		measured, off := "-", "-"
		tolerance := fmt.Sprintf("%g points", r.Tolerance)
		if r.Measured != 0 {
			measured = fmt.Sprintf(form, r.Measured)
			off = fmt.Sprintf("%+.1f", r.Predicted-r.Measured)
		}
		if r.Unit == "ns" {
			tolerance = fmt.Sprintf("%g %%", r.Tolerance)
			off = fmt.Sprintf("%+.1f %%", (r.Predicted/r.Measured-1)*100)
		}
		span := fmt.Sprintf("%"+sign+".0f..%"+sign+".0f", r.Low, r.High)
		if r.Low == r.High {
			span = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, measured, fmt.Sprintf(form, r.Predicted),
			span, off, tolerance, r.Role, r.Status)
	}
	return t.Flush()
}

// positive reports whether the percentages of r are parts of a whole and not differences.
func (r *Row) positive() bool { return r.Role == Arithmetic && r.Predicted > 50 }
