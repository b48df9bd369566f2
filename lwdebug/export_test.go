package lwdebug

import (
	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
)

// ReportOf returns what a handler of b shows at this moment.
func ReportOf(b *lw.Board) *board.Report { return report(b) }

// ListsOf and EventsOf are the words of a board for what is counted.
func ListsOf(c lw.ListCauses) map[string]uint64  { return listsOf(c) }
func EventsOf(e lw.EventTypes) map[string]uint64 { return eventsOf(e) }
