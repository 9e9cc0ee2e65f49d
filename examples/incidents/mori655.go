package main

import (
	"fmt"

	"github.com/nicless/nicless"
)

// Prefill writes a block into the memory of decode, then notifies decode by a SEND. The write
// arrives, its acknowledgement does not. The sender's queue pair fails, so the notification is
// flushed. The receiver's queue pair is as healthy as before. It waits, with the data in its hands.
var mori655 = incident{
	name:  "mori-655",
	link:  "https://github.com/ROCm/mori/issues/655",
	title: "one acknowledgement is lost, and the receiver waits for ever with the data in its memory",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{Timeout: 10, Retry: 2}) // MoRI: 14 and 7, half a second
		if err != nil {
			return "", err
		}
		a.mr.Store64(0, 0x6b76) // the block
		if err := b.qp.PostRecv(&nicless.RecvWR{ID: 7, SGE: []nicless.SGE{b.mr.SGE(128, 64)}}); err != nil {
			return "", err
		}
		if err := a.post(1, nicless.Write, b, 0, 64); err != nil {
			return "", err
		}
		if err := a.post(2, nicless.Send, nil, 64, 8); err != nil {
			return "", err
		}
		for range 2 {
			c, ok, err := a.poll(20 * patience)
			if err != nil || !ok {
				return "", fmt.Errorf("no completion: %v", err)
			}
			s.print("prefill: request %d: %v", c.ID, c.Status)
		}
		_, notified, err := b.poll(patience)
		if err != nil || notified {
			return "", err
		}
		at, err := b.qp.Query()
		return fmt.Sprintf("decode has block 0x%x, is not notified, and its queue pair is in %v", b.mr.Load64(0), at.State), err
	},
}
