/** The clock that the kit gives to plugins, under the name that tests know. @module */
export { FakeClock, type FakeClockOptions, settle } from "../../../src/kit/clock.ts";
