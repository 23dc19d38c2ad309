package testkit

// DemoTools is how many tools the demo server lists.
const DemoTools = 23
