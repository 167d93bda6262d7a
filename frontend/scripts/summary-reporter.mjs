/** Prints the one closing line that CI reads. */
export default class SummaryReporter {
  onTestRunEnd(modules, errors) {
    let passed = 0;
    let failed = errors.length;
    for (const module of modules) {
      let count = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        if (state === "failed") failed += 1;
        count += 1;
      }
      // A file that does not load has no tests, and is a failure all the same.
      if (module.state() === "failed" && count === 0) failed += 1;
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  }
}
