/*
 * The gate: libucx opens no port to the network. Its TCP transport listens on a port for each device, and
 * trusts every byte that arrives there: a program that reaches the port can end this process, or write its
 * memory. So this program defines the functions of the C library by which libucx listens, accepts and
 * connects (a dynamic library finds the executable's definitions first):
 *
 *	listen       makes a door: the socket does not listen; accept takes from a queue in this process
 *	accept       takes a connection that the engine's process has accepted, and has admitted by its ticket
 *	connect      leads to the port of the peer's engine, and only to peers after their meeting; the first
 *	             bytes that are sent are a ticket that the peer's engine has issued for this purpose
 *
 * The address of a door is where the socket was bound. No connection can be made there; peers name the door
 * by it.
 */
#ifndef NICLESS_UCX_GATE_H
#define NICLESS_UCX_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DOORS = 16,         /* devices of UCX, at most */
	DOOR_NAME = 20,     /* bytes: family:16 | port:16 | address:128; 4 for IPv4, 6 for IPv6 */
	TICKETS = 32,       /* of a peer, at most; each admits one connection */
	TICKET = 16,        /* bytes */
	ROUTES = 64,        /* peers at once */
};

/* A route says how connections to a peer's doors are made. */
struct route {
	uint32_t number;                        /* of the connection; 0: not in use */
	unsigned char to[DOOR_NAME];            /* where the peer's engine listens */
	bool any;                               /* it listens at all addresses: the door's is used, to's port */
	unsigned doors, tickets;
	unsigned char door[DOORS][DOOR_NAME];
	unsigned char ticket[TICKETS][TICKET];
};

/* gate_route adds a route. It returns false if there is no room. gate_forget removes it. */
bool gate_route(const struct route *);
void gate_forget(uint32_t number);

/* gate_doors writes the names of this process's doors, and returns how many there are. */
unsigned gate_doors(unsigned char names[DOORS][DOOR_NAME]);

/* gate_admit puts a connection into the queue of the door with this name; it owns fd from then on. */
void gate_admit(const unsigned char name[DOOR_NAME], int fd);

#endif
