/* The protocol between the shim and the server: datagrams over a unix socket of type
 * SOCK_SEQPACKET, little-endian, one answer to each request. wire.go of package verbs has
 * the same in Go, and a test compares the two.
 *
 * The shim knows nothing about verbs. It sends an ioctl with everything to which its
 * attributes may point, and writes the answer where the server says. Only the server knows
 * what an attribute means. */
#ifndef NICLESS_VERBS_WIRE_H
#define NICLESS_VERBS_WIRE_H

#include <stdint.h>

#define NV_MAGIC 0x6272766eu /* "nvrb" in memory */
#define NV_MAJOR 2
#define NV_MINOR 2
#define NV_MAX_DATAGRAM (128 * 1024)
#define NV_MAX_FDS 8

enum nv_op {
	NV_HELLO = 1, /* nv_hello -> nv_welcome: first, once in each connection */
	NV_OPEN = 2,  /* nv_open -> nv_opened + [context socket] */
	NV_ADOPT = 3, /* nothing + [descriptor] -> nv_opened: which context is the descriptor, if any? */
	NV_IOCTL = 4, /* nv_ioctl... -> nv_answer... */
	NV_MMAP = 5,  /* nv_mmap -> nv_mapped + [memory] */
	NV_ALLOC = 6, /* nv_mmap (context 0) -> nv_mapped + [memory]: shared from the start */
	NV_FREE = 7,  /* nv_mmap: memory of an NV_ALLOC, after it was unmapped */
	NV_ADDRESSES = 8, /* nv_addresses, nv_address... -> nv_network: the addresses of the network namespace */

	NV_OPEN_CHANNEL = 10, /* nothing -> nv_opened + [read end of a pipe]: /dev/infiniband/rdma_cm */
	NV_WRITE = 11,        /* nv_write... -> nv_answer...: a write to such a channel, or to a file of MADs */
	NV_NETLINK = 12,      /* nv_netlink [+ socket] -> nv_netlink [+ socket]: sockets of NETLINK_RDMA */
	NV_COUNTER = 13,   /* the path of a file, and 0 bytes -> the text of that file now */
	NV_OPEN_MAD = 14,  /* nv_open, device: the minor number -> nv_opened + [socket]: a file of MADs */
	NV_MAD_IOCTL = 15, /* nv_mad -> nv_answer...: an ioctl on such a file */
	NV_MAD_READ = 16,  /* nv_mad -> nv_answer...: a read from it */
	NV_LOOK = 17,      /* nv_look -> nothing: where the program looks for devices; from minor version 1 on */
	NV_WAKE = 18,      /* nothing -> nothing + [memory, eventfd]: how posters wake the device; from 2 on */
};

/* Begins every datagram. */
struct nv_header {
	uint16_t op;
	uint16_t flags;   /* NV_ANSWER, NV_AGAIN, NV_FAILED */
	int32_t error;    /* in an answer: 0 or an errno */
	uint32_t length;  /* bytes of the datagram, this header included */
	uint32_t tag;     /* repeated in the answer */
	uint64_t context; /* st_ino of the context socket; 0: none */
};

#define NV_ANSWER 1u
#define NV_AGAIN 2u /* in an answer: satisfy the needs, then send the request again */
#define NV_FAILED 4u /* in an answer with an error: it has nv_out, as one without an error has */

struct nv_hello {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t wants; /* NV_WANT_* */
	uint32_t zero;
	uint64_t guard;  /* address of 8 bytes that only this program has there; 0: none */
	uint64_t cookie; /* value of these 8 bytes; while they have another value, the engine copies no memory of
	                  the process */
	/* then the program's name, for the log, to the end of the datagram */
};

#define NV_WANT_FAST 1u /* memory that is registered may be remapped (not with --slow-memory) */
#define NV_HAS_UFFD 2u  /* remapping loses no stores of other threads */
#define NV_WANT_DEVX 4u /* contexts may have firmware commands (DEVX), whatever the server's default is */
#define NV_NO_DEVX 8u   /* they may not */
#define NV_WANT_GUARD 16u /* the device guards the send queues, whatever the server's default is: posters
                           * may store WQE, record and register in any order */
#define NV_NO_GUARD 32u   /* it does not */

struct nv_welcome {
	uint16_t major;
	uint16_t minor;
	uint32_t devices; /* uverbs0 .. uverbs(devices-1) */
};

/* The addresses of all interfaces in the network namespace of the calling thread, sent before a
 * device is opened. The server keeps a table for each namespace, and its files for programs. */
struct nv_addresses {
	uint64_t cookie; /* SO_NETNS_COOKIE of the namespace; 0: unknown. If the connection belongs to another
	                    namespace, the server ignores the addresses */
	uint32_t count;  /* number of nv_address that follow */
	uint32_t zero;
};

struct nv_address {
	uint8_t gid[16];  /* an IPv6 address; an IPv4 address is mapped to one (::ffff:a.b.c.d) */
	char ifname[16];  /* ends with a 0 byte */
	uint32_t ifindex;
	uint8_t prefix;   /* length of the prefix in bits, of an IPv4 address 0 to 32 */
	uint8_t zero[11];
};

struct nv_network {
	char tree[64]; /* name of the directory below the server's that has the tree "sys" of this namespace, and
	                  0 bytes; empty: the server's directory itself */
};

struct nv_open {
	uint32_t device; /* the N of uverbsN */
	uint32_t zero;
};

struct nv_opened {
	uint64_t context; /* st_ino of the context's socket, or of the channel's pipe */
	uint32_t rdev_major;
	uint32_t rdev_minor;
};

/* A request NV_IOCTL is: nv_ioctl; the struct ib_uverbs_ioctl_hdr and its num_attrs
 * attributes as the program passed them; then for each attribute with len > 8, in order,
 * the len bytes to which its data points, padded to a multiple of 8; then `results`
 * nv_result. If data points to no memory of the program, the shim sends zeros and sets the
 * attribute's bit in `unreadable` (bit n for attribute n, n < 64); the server answers EFAULT
 * if it needs these bytes.
 *
 * The request brings one descriptor for each nv_result of kind NV_NEED_FD or NV_NEED_FD_NUMBER
 * that has no error, in the order of the results. */
struct nv_ioctl {
	uint64_t unreadable;
	uint32_t results; /* number of nv_result at the end; 0 when the ioctl is sent for the first time */
	uint32_t bytes;   /* length of the program's header and attributes: hdr.length */
};

/* An answer with NV_FAILED, or with neither an error nor NV_AGAIN, is: uint64_t count; then
 * count nv_out, each followed by `length` bytes padded to a multiple of 8. */
struct nv_out {
	uint16_t attr;   /* index of the attribute */
	uint16_t kind;   /* NV_OUT_* */
	uint32_t length; /* number of bytes that follow */
	uint64_t value;
};

enum nv_out_kind {
	NV_OUT_BYTES = 1,    /* write the bytes to where data points, set the attribute's flags |= 2 */
	NV_OUT_VALUE = 2,    /* data = value */
	NV_OUT_FD = 3,       /* data = descriptor number `value` of the answer */
	NV_OUT_BACK = 5,     /* make moved pages, from `value` on, the program's own again; the bytes are
	                        their length, uint64_t; attr has no meaning */
	NV_OUT_FD_INSIDE = 4 /* the uint32 at byte `value & 0xffffffff` of where data points =
	                        descriptor number `value >> 32`; comes after the NV_OUT_BYTES
	                        of the same attribute */
};

/* An answer with NV_AGAIN is: uint64_t count; then count nv_need. It brings the memory for
 * the needs of kinds NV_NEED_REMAP and NV_NEED_TRY_REMAP as descriptors, in order. The shim
 * satisfies all needs and sends the same ioctl again with one nv_result for each need. The
 * request has the results for earlier answers before these, because the server keeps no
 * results. The shim accepts four such answers to an ioctl; if there is another one, it gives
 * up. */
struct nv_need {
	uint16_t attr; /* for NV_NEED_FD: index of the attribute */
	uint16_t kind; /* NV_NEED_* */
	uint32_t zero;
	uint64_t addr; /* for NV_NEED_REMAP and NV_NEED_TRY_REMAP: addr and length of whole pages */
	uint64_t length;
	uint64_t offset; /* offset of the pages in the memory of the answer */
};

enum nv_need_kind {
	NV_NEED_TOKEN = 3,  /* read one byte from the channel, waiting as its descriptor does */
	NV_NEED_ROUTE = 4,  /* find out from which address the kernel sends to another */
	NV_NEED_BYTES = 10, /* read `length` bytes at addr */
	NV_NEED_ADDRESSES = 11, /* send the addresses (NV_ADDRESSES) again */
	NV_NEED_FD = 1,   /* send the descriptor whose number is the attribute's data */
	NV_NEED_FD_NUMBER = 12, /* send the descriptor whose number is addr */
	NV_NEED_REMAP = 2, /* put these pages into the memory of the answer: copy them there
	                     and map the memory over them, without losing stores of other
	                     threads; then seal the memory */
	NV_NEED_TRY_REMAP = 5 /* the same for registered memory, which may also stay where it is */
};

struct nv_result {
	uint16_t attr;  /* the need's; for a remap NV_HEAP or 0 */
	uint16_t kind;  /* the need's kind */
	/* 0 or an errno: EBADF for a descriptor; for a remap, the errno of the call that failed. */
	int32_t error;
	uint64_t addr;  /* the need's addr */
};

/* The pages are in the heap of malloc. When they are not used any more, the server asks for
 * them to be made the program's own again (NV_OUT_BACK). */
#define NV_HEAP 1u

/* A channel is a file to which the program writes commands. Its descriptor is the read end of a
 * pipe, from which only the shim reads. So writing to it fails with EBADF without this library's
 * help, and only then the shim looks whether the descriptor is a channel.
 *
 * A request NV_WRITE is: nv_write; the first `bytes` bytes that were written, padded to a
 * multiple of 8; then `results` nv_got, each followed by `length` bytes, padded. In the answer,
 * the `value` of an nv_out is the address for its bytes. An answer with NV_AGAIN has needs of
 * these kinds:
 *
 *   NV_NEED_FD     addr is the number of a descriptor; the request brings it, as for an ioctl
 *   NV_NEED_TOKEN, NV_NEED_ADDRESSES
 *                  the request is sent again with this result only
 *   NV_NEED_ROUTE  nv_route follows; the result is the address, in NV_ADDRESS bytes
 *   NV_NEED_BYTES  the result is the bytes */
struct nv_write {
	uint64_t count; /* bytes that the program writes */
	uint32_t bytes; /* at most NV_MAX_WRITE; commands are shorter */
	uint32_t results;
};

#define NV_MAX_WRITE 1024
#define NV_MAD_ARG 40
#define NV_ADDRESS 32

/* Two socket addresses. The family of the first one is 0 if the kernel may choose it. */
struct nv_route {
	uint8_t from[NV_ADDRESS];
	uint8_t to[NV_ADDRESS];
};

struct nv_got {
	uint16_t kind; /* the need's */
	uint16_t zero;
	int32_t error; /* 0 or an errno */
	uint32_t length;
	uint32_t zero_too;
};

/* A socket of NETLINK_RDMA is one end of a pair of unix sockets (SOCK_SEQPACKET), over which messages of
 * netlink go as they are. Both ends have abstract names: a 0 byte, NV_NETLINK_NAME, a mark, 16 digits that
 * name the server, and 8 more. The mark is '/' at the server's end, where the last digits are any number. At
 * the program's end, to which the shim gives the name when the program binds it, the mark is '=', and the
 * last digits are the port id. Digits are hexadecimal, with small letters. A message NLMSG_OVERRUN says that
 * messages were lost.
 *
 * The request NV_NETLINK_OPEN brings a socket in the answer. All others bring a copy of the socket, and set
 * an option, or get it: then the answer has its value. An option has the number of SOL_NETLINK. */
struct nv_netlink {
	uint32_t option; /* NV_NETLINK_OPEN, or NV_NETLINK_GROUPS or another option, with NV_NETLINK_GET or not */
	uint32_t value;
};

#define NV_NETLINK_NAME "nicless-nl"
#define NV_NETLINK_OPEN 0u
#define NV_NETLINK_GROUPS 0x10000u /* the groups of bind, one bit each; setting adds some */
#define NV_NETLINK_GET 0x20000u

/* A file of MADs is an open of /dev/infiniband/umadN or issmN. Its descriptor is a socket, and the server
 * has sent one byte to the program's end as long as a datagram waits, so that poll and O_NONBLOCK do what
 * they do for the kernel's file. A read takes this byte, and asks for the datagram. The server sends another
 * byte after it has answered, if a datagram still waits: also the one that did not fit. With EAGAIN nothing
 * waits any more, and the read begins again. A write is a request NV_WRITE, without needs.
 *
 * In answers, also in those with NV_FAILED, the `value` of an nv_out is the address for its bytes. */
struct nv_mad {
	uint64_t arg;     /* address of the argument of the ioctl, or of the buffer of the read */
	uint64_t count;   /* bytes of the buffer */
	uint32_t request; /* number of the ioctl; 0: a read */
	uint32_t unreadable; /* 1: arg points to no memory of the program, and bytes is zero */
	uint8_t bytes[NV_MAD_ARG]; /* to which arg points, as many as the number of the ioctl says */
};

/* The program maps `length` bytes, whole pages, of its context from `offset` on. The shim has
 * reserved the addresses from addr on, and maps the memory of the answer there. */
struct nv_mmap {
	uint64_t addr;
	uint64_t length;
	uint64_t offset;
	uint32_t prot;
	uint32_t flags;
	/* Bytes that are reserved from addr on: more than length if the shim can keep the rest of the memory for
	 * later requests. From minor version 1 on; servers of version 0 refuse it. */
	uint64_t room;
};

struct nv_mapped {
	uint64_t offset; /* offset of the mapped bytes in the memory of the answer. If whole is 0 and the answer
	                  * brings no memory: the address of this process's mapping that the shim is to copy */
	uint64_t whole;  /* for a UAR page, the bytes of all UAR pages; else 0 */
	/* From minor version 1 on: the bytes that the shim is to map from addr on, at most room; 0: length. The
	 * program gets `length` of them, at their end. The others are for later mappings of the same context
	 * whose offsets have the same bits in `alike`, without a request. Each byte is used once, and before the
	 * next request of this kind the shim unmaps the bytes that it has not used. */
	uint64_t given;
	uint64_t alike;
};

/* The first NV_STATUS_BYTES bytes of the memory of the answer to NV_WAKE may be mapped for reading. If the 8
 * bytes at offset NV_ASLEEP are not 0, the device sleeps, or is about to, and 8 bytes that are written to the
 * eventfd, the number 1, wake it. Each sleep has another number there, and one write for it suffices. If the
 * 8 bytes are NV_NAPS, the device is awake, and who has posted has to execute a full barrier and look again.
 * The request is refused after the context has made a queue pair. */
#define NV_ASLEEP 16u
#define NV_NAPS (UINT64_C(1) << 63)
#define NV_STATUS_BYTES 4096u

/* Sent once by a process for each place. */
struct nv_look {
	uint32_t place; /* NV_AT_* */
	uint32_t zero;
};

enum nv_place_looked {
	NV_AT_PCI = 0,    /* the list of all PCI functions, or of those of mlx5's driver */
	NV_AT_NETDEV = 1, /* the RDMA devices of the hardware of a network interface */
};

/* After the shim has mapped the memory of an answer, it seals the memory (F_SEAL_FUTURE_WRITE
 * and F_SEAL_SEAL), unless the memory is sealed already. From then on no process can map the
 * memory for writing or punch holes into it (a hole could make the engine wait). The server
 * does not use the memory before it is sealed.
 *
 * Because sealed memory cannot be mapped for writing again, UAR pages are mapped all at once:
 * the shim maps `whole` bytes, keeps the mapping, and gives the program copies of it. Only
 * the answer for the first UAR page that a process maps of a context brings the memory. When
 * the context has ended, the server stores 1 in the word at offset NV_GONE of the memory. */
#define NV_GONE 0x7f8u

#endif
