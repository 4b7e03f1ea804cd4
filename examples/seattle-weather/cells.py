# What an agent might send, cell by cell, to a kernel that remembers: `# %%` begins a cell.
# %% Load the data
import pandas as pd

weather = pd.read_csv("seattle-weather.csv", parse_dates=["date"])
print(f"{len(weather):,} days from {weather.date.min():%d %B %Y} to {weather.date.max():%d %B %Y}")

# %% A table
weather.groupby(weather.date.dt.year).agg(
    rainy_days=("precipitation", lambda mm: int((mm > 0).sum())),
    rain_mm=("precipitation", "sum"),
    warmest=("temp_max", "max"),
    coldest=("temp_min", "min"),
)

# %% A mistake: no column has that name
by_month = weather.groupby(weather.date.dt.month)["temperature"].mean()

# %% Its correction
by_month = weather.groupby(weather.date.dt.month)[["temp_min", "temp_max"]].mean()
by_month.round(1)

# %% A chart
import matplotlib.pyplot as plt

rain = weather.groupby(weather.date.dt.month)["precipitation"].sum() / weather.date.dt.year.nunique()
fig, (top, bottom) = plt.subplots(2, figsize=(7, 6), sharex=True, layout="constrained")
top.fill_between(by_month.index, by_month.temp_min, by_month.temp_max, color="tab:orange", alpha=0.4)
top.set(title="Seattle, 2012 to 2015: an average year", ylabel="daily min. to max. (°C)")
bottom.bar(rain.index, rain, color="tab:blue")
bottom.set(xlabel="month", ylabel="precipitation (mm)", xticks=range(1, 13))
plt.show()
