//go:build linux && (amd64 || arm64)

package top

import "strings"

const helpText = `nicless top

TABLES
  Tab, Shift+Tab    queues, clients, completion queues
  arrows, j k       move; PgUp PgDn Home End, g G
  Enter             of a queue or CQ: its page; of a client: its queues
  F6                choose the column that gives the order; < > the next one
  I                 the other way round
  P M T N O         order by rate, bytes, latency (p99), number, outstanding
  F4, /             filter: rows that have all words, as "put rts client=2,";
                    Esc shows all again
  Z, Space          pause, go on
  F1, ?             this help
  q, F10, Ctrl+C    quit

PAGE OF A QUEUE
  Tab, Left, Right  overview, send ring, receive ring, its CQs
  arrows            move the cursor over the entries of a ring, PgUp PgDn
                    Home End; in the overview, scroll
  f                 the cursor follows the consumer again
  [ ]               scroll the fields of the entry
  Esc, q            back

COLUMNS
  WQE/s B/s         WQEs executed in a second, and bytes moved by these
  ST                state of the queue pair: RST, INIT, RTR, RTS, SQD, SQE, ERR
  OUT               blocks of 64 bytes that are posted and not executed; a
                    short WQE is one block
  RECV              receives that wait for messages
  P50 P99           latency from doorbell to completion, by the device's clock,
                    of WQEs sampled while the queue was on the screen
  PEER              > before the number: it is on another device
  NOTE              why the next WQE waits, or the last error

RINGS
  C consumer, P producer, * both, ^ cursor; ! in error
  Entries before the consumer are done, and their places are free.

The engine is asked at most every "every" seconds, and so seldom that the
answer takes less than a hundredth of a core.`

func (m *Model) helpLines() []string { return strings.Split(helpText, "\n") }
