/** Files of plugins, and their tests beside them: `shop_test.ts` for `shop.ts`. @module */

import { usage } from "../../flags/parse_flags.ts";
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import process from "node:process";
import { messageOf } from "../../../base/mod.ts";

const TEST_FILE = /[._]test\.[cm]?[jt]s$/;

export type Write = (text: string) => void;

/** A path as a user would type it. */
export function shown(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") ? path : near;
}

/** The name of a module of Node, with its prefix. */
export function nodeName(name: string): string {
  return name.startsWith("node:") ? name : `node:${name}`;
}

export function isTestFile(path: string): boolean {
  return TEST_FILE.test(path);
}

/** The tests of a test file, a plugin or a directory; throws `usage` without any. */
export async function testFilesOf(path: string): Promise<string[]> {
  const whole = resolve(path);
  const isDirectory = await stat(whole).then((found) => found.isDirectory(), (error) => {
    const fact = error.code === "ENOENT" ? "there is no such file" : messageOf(error);
    throw usage(`Cannot test ${path}: ${fact}`);
  });
  if (isDirectory) {
    const tests = (await readdir(whole)).filter((name) => TEST_FILE.test(name)).sort();
    if (tests.length > 0) return tests.map((name) => join(whole, name));
    throw usage(`Cannot test ${path}: no file there ends in _test.ts`);
  }
  if (isTestFile(whole)) return [whole];
  const tests = await testsBeside(whole);
  if (tests.length > 0) return tests;
  const extension = extname(whole);
  const wanted = `${basename(whole, extension)}_test${extension}`;
  throw usage(`Cannot test ${path}: there is no ${wanted} beside it`);
}

/** Tests of the plugin at that absolute path; often none. */
export async function testsBeside(path: string): Promise<string[]> {
  const stem = basename(path, extname(path));
  const isTest = (name: string) => TEST_FILE.test(name) && name.replace(TEST_FILE, "") === stem;
  return (await readdir(dirname(path))).filter(isTest).map((name) => join(dirname(path), name));
}
