import assert from "node:assert/strict";
import { closeSync, openSync, readdirSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { cLibrary } from "./c_library.ts";
import { park, unpark } from "./epoll_watch.ts";

const FDS = "/proc/self/fd";

function open(): { readonly socket: number; readonly epoll: number; close(): void } {
  const [socket, epoll] = [openSync("/dev/null", "r"), openSync("/dev/zero", "r")];
  return {
    socket,
    epoll,
    close() {
      closeSync(socket);
      closeSync(epoll);
    },
  };
}

const at = (fd: number) => readlinkSync(`${FDS}/${fd}`);

if (cLibrary()) {
  test("park() puts another descriptor under the number until unpark()", () => {
    const { socket, epoll, close } = open();
    const before = readdirSync(FDS).length;
    const watch = { fd: socket, epoll, events: 0, data: 0n };
    const parked = park(watch) ?? assert.fail("not parked");
    assert.deepEqual([at(socket), at(parked)], ["/dev/zero", "/dev/null"]);
    unpark(watch, parked);
    assert.equal(at(socket), "/dev/null");
    assert.equal(readdirSync(FDS).length, before);
    close();
  });

  test("park() that fails changes nothing", () => {
    const { socket, epoll, close } = open();
    const before = readdirSync(FDS).length;
    for (const watch of [{ fd: socket, epoll: -1 }, { fd: -1, epoll }]) {
      assert.equal(park({ ...watch, events: 0, data: 0n }), undefined);
    }
    assert.equal(at(socket), "/dev/null");
    assert.equal(readdirSync(FDS).length, before);
    close();
  });
}
