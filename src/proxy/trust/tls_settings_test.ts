import assert from "node:assert/strict";
import { test } from "node:test";
import { TICKET_LIFE_MS, Tickets } from "./tls_settings.ts";

const TICKET = new Uint8Array([1]);

test("Tickets.find() gives the newest ticket of a server", () => {
  const tickets = new Tickets();
  tickets.keep("db", { ticket: TICKET, provenMs: 0 });
  const newer = { ticket: new Uint8Array([2]), provenMs: 5 };
  tickets.keep("db", newer);
  assert.equal(tickets.find("db", 10), newer);
  assert.equal(tickets.find("web", 10), undefined);
});

test("Tickets.find() drops a ticket whose full handshake was too long ago", () => {
  const tickets = new Tickets();
  tickets.keep("db", { ticket: TICKET, provenMs: 0 });
  // A ticket of a resumed handshake is as old as its full handshake.
  tickets.keep("db", { ticket: TICKET, provenMs: 0 });
  assert.ok(tickets.find("db", TICKET_LIFE_MS));
  assert.equal(tickets.find("db", TICKET_LIFE_MS + 1), undefined);
});

test("Tickets.keep() replaces the ticket of a server, and drops no other", () => {
  const tickets = new Tickets();
  const keep = (index: number) => tickets.keep(`server ${index}`, { ticket: TICKET, provenMs: 0 });
  for (let index = 0; index < 1_024; index++) keep(index);
  keep(1);
  assert.ok(tickets.find("server 0", 0));
  keep(0);
  keep(1_024);
  assert.ok(tickets.find("server 0", 0));
  assert.equal(tickets.find("server 2", 0), undefined);
});

test("Tickets.keep() drops the least recently stored beyond its limit", () => {
  const tickets = new Tickets();
  for (let index = 0; index <= 1_024; index++) {
    tickets.keep(`server ${index}`, { ticket: TICKET, provenMs: 0 });
  }
  assert.equal(tickets.find("server 0", 0), undefined);
  assert.ok(tickets.find("server 1", 0));
});
