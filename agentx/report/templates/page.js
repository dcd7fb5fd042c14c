// Draws the page's charts one after another, in the colours of the page, and again when those change.
(() => {
  "use strict";
  const LIGHT = { text: "#1c2026", grid: "#e3e6eb", line: "#b6bcc6", card: "#ffffff" };
  const DARK = { text: "#e4e7ec", grid: "#2c323b", line: "#555d69", card: "#1a1e25" };
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const PRINTED_WIDTH = { wide: 680, half: 330 };

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const template = () => {
    const colours = dark.matches && !printing ? DARK : LIGHT;
    const axis = {
      gridcolor: colours.grid,
      linecolor: colours.line,
      zerolinecolor: colours.line,
      tickcolor: colours.line,
      showline: true,
      ticks: "outside",
      ticklen: 4,
    };
    return {
      layout: {
        font: { family: FONT, size: 12, color: colours.text },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        xaxis: axis,
        yaxis: axis,
        legend: { bgcolor: "rgba(0,0,0,0)" },
        hoverlabel: {
          bgcolor: colours.card,
          bordercolor: colours.line,
          font: { family: FONT, color: colours.text },
          align: "left",
        },
      },
    };
  };

  const charts = [...document.querySelectorAll("[data-chart]")];

  // Numbers for a logarithmic axis, of so many pixels each: 1, 2, 5 where there is room for them,
  // else each power of ten, or each second, third ...; within a decade as on a straight axis.
  const withNumbers = (axis, length, each) => {
    if (!axis || axis.type !== "log") return axis;
    const decades = axis.range[1] - axis.range[0];
    const room = length / decades;
    if (decades < 0.8) return { ...axis, nticks: Math.max(2, Math.floor(length / each)) };
    const tight = room * Math.log10(2) < each;
    return { ...axis, dtick: tight ? Math.ceil(each / room) : "D2" };
  };

  const draw = (div) => {
    const figure = JSON.parse(document.getElementById(div.dataset.chart).textContent);
    const layout = { ...figure.layout, template: template(), autosize: !printing };
    // A finger that scrolls the page must not zoom a chart.
    layout.dragmode = touch ? false : "zoom";
    layout.height = div.clientHeight;
    if (printing) {
      layout.width = PRINTED_WIDTH[div.dataset.width];
    }
    const { l, r, t, b } = layout.margin;
    layout.xaxis = withNumbers(layout.xaxis, (layout.width ?? div.clientWidth) - l - r, 52);
    layout.yaxis = withNumbers(layout.yaxis, layout.height - t - b, 20);
    return Plotly.react(div, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      displayModeBar: touch ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  };

  const drawOne = async (div) => {
    try {
      await draw(div);
    } catch (error) {
      console.error(error);
      div.textContent = "This chart could not be drawn here.";
    }
  };

  const drawAll = async () => {
    for (const div of charts) {
      await drawOne(div);
      await new Promise((resolve) => setTimeout(resolve));
    }
    document.documentElement.dataset.charts = "drawn";
  };

  const redraw = () => charts.forEach(drawOne);
  const print = (now) => {
    if (printing !== now) {
      printing = now;
      redraw();
    }
  };

  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) {
      width = window.innerWidth;
      redraw();
    }
  });
  dark.addEventListener("change", redraw);
  paper.addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  drawAll();
})();
