/** The clock that the kit for plugins gives to everybody, under the name that tests know. @module */
export { FakeClock, type FakeClockOptions, settle } from "../../../src/kit/clock.ts";
