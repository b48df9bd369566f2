package lwdebug

import (
	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
)

// ReportOf returns what a handler of b shows at this moment.
func ReportOf(b *lw.Board) *board.Report { return report(b) }
