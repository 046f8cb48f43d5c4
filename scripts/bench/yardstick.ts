/**
 * A bare relay on Bun's sockets with mTLS and nothing else: no identity, no policy, no limits, no log.
 * Its cost in instructions is known from a machine that counts them; on one that does not, the time of
 * Postern beside the time of this gives Postern's instructions (see `targets.ts`). Run by Bun:
 *
 *     bun yardstick.ts inbound|outbound PORT TARGET_PORT CERT KEY ROOTS
 *
 * @module
 */

import { readFileSync } from "node:fs";
import process from "node:process";

interface Socket {
  data: Half | undefined;
  write(chunk: Uint8Array): number;
  end(): void;
  pause(): void;
  resume(): void;
  setNoDelay(on: boolean): void;
  setSession(session: Uint8Array): void;
  upgradeTLS(options: object): [Socket, Socket];
}

interface Runtime {
  listen(options: object): unknown;
  connect(options: object): Promise<unknown>;
}

/** One side of a relayed connection. */
interface Half {
  other: Socket | undefined;
  gone: boolean;
  paused: boolean;
  ending: boolean;
  readonly waiting: Uint8Array[];
}

const { Bun: bun } = globalThis as unknown as { Bun: Runtime };
const [role, port, target, certFile = "", keyFile = "", rootsFile = ""] = process.argv.slice(2);
const HOST = "127.0.0.1";
const credentials = {
  cert: readFileSync(certFile, "utf8"),
  key: readFileSync(keyFile, "utf8"),
  ca: readFileSync(rootsFile, "utf8"),
};

function half(other?: Socket): Half {
  return { other, gone: false, paused: false, ending: false, waiting: [] };
}

function send(to: Socket, from: Socket, chunk: Uint8Array): void {
  const { data } = to;
  if (!data) return;
  const sent = data.waiting.length > 0 ? 0 : Math.max(to.write(chunk), 0);
  if (sent === chunk.length) return;
  data.waiting.push(chunk.subarray(sent));
  if (from.data) from.data.paused = true;
  from.pause();
}

const RELAY = {
  data(socket: Socket, chunk: Uint8Array) {
    const other = socket.data?.other;
    if (other) send(other, socket, chunk);
    else socket.data?.waiting.push(chunk);
  },
  drain(socket: Socket) {
    const { data } = socket;
    if (!data?.other) return;
    while (data.waiting[0]) {
      const sent = Math.max(socket.write(data.waiting[0]), 0);
      if (sent < data.waiting[0].length) {
        data.waiting[0] = data.waiting[0].subarray(sent);
        return;
      }
      data.waiting.shift();
    }
    if (data.other.data?.paused) {
      data.other.data.paused = false;
      data.other.resume();
    }
    if (data.ending) socket.end();
  },
  close({ data }: Socket) {
    if (!data) return;
    data.gone = true;
    if (!data.other?.data) return;
    if (data.other.data.waiting.length > 0) data.other.data.ending = true;
    else data.other.end();
  },
  error() {},
};

/** Both ends are there: bytes that the first one sent meanwhile go out. */
function join(first: Socket, second: Socket): void {
  const { data } = first;
  if (!data || data.gone) return second.end();
  data.other = second;
  for (const chunk of data.waiting.splice(0)) send(second, first, chunk);
}

function listenSecurely(): void {
  const tls = { ...credentials, requestCert: true, rejectUnauthorized: true };
  const handshake = (socket: Socket, success: boolean) => {
    if (!success) return socket.end();
    const open = (local: Socket) => {
      local.setNoDelay(true);
      join(socket, local);
    };
    bun.connect({
      hostname: HOST,
      port: Number(target),
      data: half(socket),
      socket: { ...RELAY, open, connectError: () => socket.end() },
    }).catch(() => socket.end());
  };
  const open = (raw: Socket) => {
    raw.setNoDelay(true);
    raw.upgradeTLS({ tls, isServer: true, data: half(), socket: { ...RELAY, handshake } });
  };
  const socket = { open, data() {}, close() {}, error() {} };
  bun.listen({ hostname: HOST, port: Number(port), socket });
}

function listenPlainly(): void {
  const tls = { ...credentials, rejectUnauthorized: false, serverName: "db" };
  let ticket: Uint8Array | undefined;
  const open = (socket: Socket) => {
    socket.data = half();
    socket.setNoDelay(true);
    bun.connect({
      hostname: HOST,
      port: Number(target),
      tls,
      data: half(socket),
      socket: {
        ...RELAY,
        open(server: Socket) {
          if (ticket) server.setSession(ticket);
          server.setNoDelay(true);
        },
        session: (_server: Socket, session: Uint8Array) => ticket = session,
        handshake: (server: Socket) => join(socket, server),
        connectError: () => socket.end(),
      },
    }).catch(() => socket.end());
  };
  bun.listen({ hostname: HOST, port: Number(port), socket: { ...RELAY, open } });
}

if (role === "inbound") listenSecurely();
else listenPlainly();
